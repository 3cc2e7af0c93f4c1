"""One consumer: claims, leases, names of durable subscribers."""
