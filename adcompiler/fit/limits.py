"""Limits of solvers: the unit of each, why it has this value, and what grows if it is larger."""

# Parameters of a fit in a batch: the normal equations are written out; code is their cube.
MOST_BATCH_PARAMETERS = 16

# Fits are computed in whole vectors, so that the bits of one do not depend on how many others there are.
LANES = 16
WAVE_POINTS = 1 << 18  # points of a wave of fits: enough for all threads, few enough for caches
FEWEST_WAVE_FITS = 1 << 10  # fits of a wave: enough for all threads, where each has many points
MOST_WAVE_FITS = 1 << 14  # fits of a wave: few enough for caches, where each has few points
REFILL_SHARE = 4  # a wave gets new fits when one part in so many has ended: idle lanes against copying

MOST_DENSE_ENTRIES = 2**27  # entries of a dense Jacobian, 1 GiB; beyond, an error names the sparse one

# Entries of a Jacobian from which its pattern is looked for, unless asked: the search takes longer.
SPARSE_ENTRIES = 2**16
SPARSE_SHARE = 8  # a Jacobian is sparse if it needs at most one in so many of its columns as directions

MOST_COVARIANCES = 5000  # parameters of which a covariance matrix is computed, 200 MB; time is their cube

PROGRESS_SECONDS = 0.25  # seconds between two texts of a line of progress: what one can read

# An interval by profile likelihood is infinite if the cost has not risen enough after so many doublings of
# the distance: at about a million standard errors.
MOST_PROFILE_STEPS = 20
PROFILE_SHARE = 1e-7  # share of the half width to which an end of such an interval is found; then comes noise
FARTHEST = 1e6  # the search for it begins at one error, unless this is so many times the parameter itself

# A fit is not the best one if another has a cost lower by this share of the rise that ends an interval: more
# than the tolerances of fits leave.
BETTER_SHARE = 1e-2

MOST_NAMES = 10  # names of parameters in a message
