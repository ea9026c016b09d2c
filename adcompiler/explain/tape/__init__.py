"""Pictures and checks of what the tape recorded."""
