"""Parts to test triggers with: private servers, started as child processes on free ports."""
