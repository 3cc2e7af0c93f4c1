"""What each kind that is kept beside the entries must do, over the records of every store."""
