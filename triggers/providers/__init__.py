"""The messaging systems that a trigger can receive from, one file each."""
