"""What is true, found without the code under test: brute force, and the model called directly."""
