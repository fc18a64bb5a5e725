//! Files
