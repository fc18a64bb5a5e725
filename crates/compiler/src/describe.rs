//! Programs in words.
