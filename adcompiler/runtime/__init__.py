"""What happens at a call: arguments, programs, reports."""
