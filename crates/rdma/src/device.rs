//! Which device and port serve an address, and the devices that are open.
//!
//! With Ethernet (RoCE) a port's gids are its addresses, so the port is the one that has the
//! address. An InfiniBand port has no IP addresses: the first active one serves any address that no
//! port has. On loopback both ends are on this machine, and the first active port serves.

use crate::loose::Loose;
use crate::pages::reason;
use crate::port::Port;
use channel::fabric::{Fabric, LooseEnd};
use sideway::ibverbs::device::{DeviceInfo, DeviceList};
use sideway::ibverbs::device_context::{DeviceContext, LinkLayer, PortState};
use sideway::ibverbs::protection_domain::ProtectionDomain;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// The gid type of RoCE over UDP: it passes routers.
const ROUTED: u32 = 1;

/// The verbs of this machine's devices.
#[derive(Default)]
pub(crate) struct Verbs {
    /// The ports that have served an address.
    known: Mutex<BTreeMap<IpAddr, Port>>,
}

impl Fabric for Verbs {
    fn check(&self, at: IpAddr) -> Result<(), String> {
        self.port(at).map(drop)
    }

    fn end(&self, at: IpAddr) -> Result<Box<dyn LooseEnd>, String> {
        let loose = self.port(at).and_then(|port| Loose::new(&port));
        if loose.is_err() {
            // The device may have gone, or its addresses may have changed.
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&at);
        }
        Ok(Box::new(loose?))
    }
}

impl Verbs {
    fn port(&self, at: IpAddr) -> Result<Port, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = known.get(&at) {
            return Ok(port.clone());
        }
        let port = chosen(ports()?, at)?;
        known.insert(at, port.clone());
        Ok(port)
    }
}

/// All active ports with all their gids.
fn ports() -> Result<Vec<Port>, String> {
    let devices = DeviceList::new().map_err(|error| {
        format!(
            "no list of devices ({}); install libibverbs and the providers of its devices (Debian: libibverbs1 \
             ibverbs-providers)",
            reason(&error)
        )
    })?;
    let mut all = Vec::new();
    for device in &devices {
        let name = device.name();
        let fail = |error: &dyn std::error::Error| format!("device {name}: {}", reason(error));
        let context = device.open().map_err(|e| fail(&e))?;
        let domain = context.alloc_pd().map_err(|e| fail(&e))?;
        let count = context.query_device().map_err(|e| fail(&e))?.phys_port_cnt();
        for number in 1..=count {
            add_port(&mut all, &context, &domain, number).map_err(|e| fail(&*e))?;
        }
    }
    Ok(all)
}

/// Adds a port if it is active, once for each gid.
fn add_port(
    all: &mut Vec<Port>,
    context: &Arc<DeviceContext>,
    domain: &Arc<ProtectionDomain>,
    number: u8,
) -> Result<(), Box<dyn std::error::Error>> {
    let port = context.query_port(number)?;
    if port.port_state() != PortState::Active {
        return Ok(());
    }
    for entry in context.query_gid_table()?.iter().filter(|entry| entry.port_num() == u32::from(number)) {
        let Ok(gid_index) = u8::try_from(entry.gid_index()) else { continue };
        all.push(Port {
            context: context.clone(),
            domain: domain.clone(),
            number,
            mtu: port.active_mtu(),
            lid: port.lid(),
            gid: entry.gid().raw,
            gid_index,
            is_infiniband: port.link_layer() == LinkLayer::InfiniBand,
            is_routed: context.query_gid_type(number, entry.gid_index()).is_ok_and(|kind| kind == ROUTED),
        });
    }
    Ok(())
}

/// The port for an address, of all those of the machine.
fn chosen(ports: Vec<Port>, at: IpAddr) -> Result<Port, String> {
    if ports.is_empty() {
        return Err(
            "this machine has no device with an active port; `rdma link` shows them; soft-RoCE makes one of \
                    a network device (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev DEVICE)"
                .to_string(),
        );
    }
    let address = |port: &Port| Ipv6Addr::from(port.gid).to_canonical();
    let is_anywhere = at.is_loopback() || at.is_unspecified();
    // The best last: of equals the first.
    let serves = |port: &&Port| address(port) == at.to_canonical() || is_anywhere || port.is_infiniband;
    let rank = |port: &Port| (address(port) == at.to_canonical(), port.is_routed, address(port).is_ipv4());
    let best = ports.iter().rev().filter(serves).max_by_key(|port| rank(port));
    best.cloned().ok_or_else(|| {
        let mut addresses: Vec<String> = ports.iter().map(|port| address(port).to_string()).collect();
        addresses.sort();
        addresses.dedup();
        format!("no device has the address {at}: expected one of {}", addresses.join(", "))
    })
}
