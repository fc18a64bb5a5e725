//! one binary
