//! An instance seen without the type of its engine. [`crate::Instance`] says what each method does.

use crate::config::InstanceFault;
use crate::orders::TrafficOrder;
use crate::owners::balance::RepartitionError;
use crate::running::{Recovery, Running};
use base::InstanceId;
use channel::Address;
use exec::{Carried, Load, Maintenance, Prefetch};
use probe::Measured;
use std::ops::Range;
use topology::Binding;
use txn::Workload;

pub(crate) trait Island<W: Workload> {
    fn address(&self) -> Option<Address>;
    fn far_address(&self) -> Option<Address>;
    fn recovery(&self) -> &Recovery;
    fn shortage(&self) -> Option<String>;
    fn fault(&self) -> Option<String>;
    fn binding(&self) -> &Binding;
    fn connect(&self, peers: &[(InstanceId, Address)]);
    fn load(&self, progress: &dyn Fn(u64, u64)) -> Result<(), InstanceFault>;
    fn obey(&self, order: &TrafficOrder<W>) -> Result<(), InstanceFault>;
    fn measure(&self) -> Result<Measured, InstanceFault>;
    fn partitions(&self) -> Vec<(Range<u32>, usize)>;
    fn repartition(&self, parts: &[(Range<u32>, usize)]) -> Result<Carried, RepartitionError>;
    fn halt(&self) -> Result<(), InstanceFault>;
    fn audit(&self) -> Result<Vec<u8>, InstanceFault>;
    fn stop(self: Box<Self>) -> Result<(), InstanceFault>;
}

impl<W: Workload, E: Load + Maintenance + Prefetch> Island<W> for Running<W, E> {
    fn address(&self) -> Option<Address> {
        Running::address(self)
    }

    fn far_address(&self) -> Option<Address> {
        Running::far_address(self)
    }

    fn recovery(&self) -> &Recovery {
        Running::recovery(self)
    }

    fn shortage(&self) -> Option<String> {
        Running::shortage(self)
    }

    fn fault(&self) -> Option<String> {
        Running::fault(self)
    }

    fn binding(&self) -> &Binding {
        Running::binding(self)
    }

    fn connect(&self, peers: &[(InstanceId, Address)]) {
        Running::connect(self, peers);
    }

    fn load(&self, progress: &dyn Fn(u64, u64)) -> Result<(), InstanceFault> {
        Running::load(self, progress)
    }

    fn obey(&self, order: &TrafficOrder<W>) -> Result<(), InstanceFault> {
        Running::obey(self, order)
    }

    fn measure(&self) -> Result<Measured, InstanceFault> {
        Running::measure(self)
    }

    fn partitions(&self) -> Vec<(Range<u32>, usize)> {
        Running::partitions(self)
    }

    fn repartition(&self, parts: &[(Range<u32>, usize)]) -> Result<Carried, RepartitionError> {
        Running::repartition(self, parts)
    }

    fn halt(&self) -> Result<(), InstanceFault> {
        Running::halt(self)
    }

    fn audit(&self) -> Result<Vec<u8>, InstanceFault> {
        Running::audit(self)
    }

    fn stop(self: Box<Self>) -> Result<(), InstanceFault> {
        Running::stop(*self)
    }
}
