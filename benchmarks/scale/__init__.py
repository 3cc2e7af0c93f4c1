"""How many servers a load needs: costs measured here, arithmetic, and a simulation of many shards."""
