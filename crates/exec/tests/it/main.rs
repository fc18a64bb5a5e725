//! Two transactions side by side, step by step: what the second may see and do while the first has not ended.

mod isolation;
mod schema;
