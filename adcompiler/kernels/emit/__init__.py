"""From a schedule to loop IR: the statements of each loop nest."""
