//! How a connector names itself.

/// Opaque bytes that the connector chooses and the listener's owner gets with the link; they
/// identify the caller.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hello(pub Vec<u8>);

impl Hello {
    /// The longest hello.
    pub const MOST_BYTES: usize = 4096;
}
