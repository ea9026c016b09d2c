"""Two checkouts on one corpus of programs: what each makes of them, artefact by artefact."""
