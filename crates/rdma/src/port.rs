//! A port of a device.

use sideway::ibverbs::device_context::{DeviceContext, Mtu};
use sideway::ibverbs::protection_domain::ProtectionDomain;
use std::sync::Arc;

/// A port of an open device, with the gid under which it is reached.
#[derive(Clone)]
pub(crate) struct Port {
    pub context: Arc<DeviceContext>,
    pub domain: Arc<ProtectionDomain>,
    pub number: u8,
    pub mtu: Mtu,
    pub lid: u16,
    pub gid: [u8; 16],
    pub gid_index: u8,
    pub is_infiniband: bool,
    pub is_routed: bool,
}
