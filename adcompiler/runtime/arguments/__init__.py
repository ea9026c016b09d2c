"""What a call is given: checks, adapters to other libraries, signatures."""
