"""Where a NaN or an infinity comes from, in programs and on the tape."""
