"""Specs of the property tests, a module for each file of ops/*.def."""
