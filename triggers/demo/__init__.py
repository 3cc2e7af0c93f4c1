"""The main job: order messages, booked once each, although they are sent twice and the worker is killed."""
