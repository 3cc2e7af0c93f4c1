"""What workers receive from, besides a receiver of the provider's own."""
