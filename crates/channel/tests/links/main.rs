//! Links as their users see them: every channel by the same scripts. No test here starts a process
//! (`processes` gives the reason).

mod common;
mod exchange;
mod held_back;
mod lobby;
mod setup;
mod wake;
