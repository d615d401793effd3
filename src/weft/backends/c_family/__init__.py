"""What C and CUDA C++ share: how types, numbers and statements are spelled, and the functions they call."""
