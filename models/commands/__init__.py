"""The commands of `python -m models`, one file each."""
