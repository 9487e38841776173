"""What a run leaves behind: the entries of its log, their replay, and a file for people to read."""
