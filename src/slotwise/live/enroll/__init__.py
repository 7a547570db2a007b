"""Enrolment: keys, passwords and access rules for a broker, its server and its devices."""
