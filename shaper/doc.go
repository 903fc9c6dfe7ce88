package shaper
