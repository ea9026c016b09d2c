"""Arguments of a call: checks, adapters to other libraries, signatures."""
