"""Several operations as one entry of the tape: compiled functions on Variables, and `adc.fuse`."""
