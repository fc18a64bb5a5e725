//! The validation of `atoll plan` against measured deployments: the parts of `cargo xtask
//! validate-plan`.
//!
//! [`points`] draws workload points from a seed. [`source`] predicts and measures the deployments
//! of a point: by the program, or by a formula where the run is dry. [`score`] compares the two
//! (values in, values out), and [`report`] writes the tables.

pub mod points;
pub mod report;
pub mod score;
pub mod source;
