//! The page as a reader gets it: in a browser, where there is one.

mod browser;
mod page;
mod sample;
