//! The name of this host and the release of its kernel.

/// The name that the host gives itself (`uname -n`).
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The release of the running kernel (`uname -r`).
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
