"""The protocol: pure; told what happened and the time, it answers with what is to be done."""
