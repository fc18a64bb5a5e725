//! The page as a reader sees it: in a browser, if there is one.

mod browser;
mod essay;
mod microscope;
mod page;
mod sample;
