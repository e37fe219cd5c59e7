"""Findings: what a paper claims, beside what the committed records and studies show."""
