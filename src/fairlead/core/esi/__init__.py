"""What the engine knows of external schedulers: their objects, and the slots of Testbeds."""
