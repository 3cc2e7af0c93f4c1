"""What we do: triggers, the pipeline behind them, and the providers they receive from."""
