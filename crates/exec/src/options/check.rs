//! Which combinations of a design, its options and the size of a deployment make sense.
//!
//! Every command checks a deployment here before it starts the first instance. Each message names
//! the option, the expected values and the remedy.

use super::EngineOptions;
use crate::design::DesignKind;
use base::counted;
use partition::Mode;
use store::{HeapForm, TreeKind};

/// The size of a deployment.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Instances.
    pub islands: usize,
    /// Workers of all instances.
    pub workers: usize,
    /// Sites of the data.
    pub sites: usize,
}

impl Size {
    /// Workers of the instance that has most.
    pub fn busiest(self) -> usize {
        self.workers.div_ceil(self.islands.max(1))
    }

    /// Sites of the instance that has fewest.
    fn fewest_sites(self) -> usize {
        self.sites / self.islands.max(1)
    }

    /// Whether the keys of each instance divide into this many partitions. No partition cuts a
    /// site. One for each worker is always accepted: where sites are fewer, some workers own none.
    pub fn has_room_for(self, partitions: usize) -> bool {
        partitions <= self.busiest().max(self.fewest_sites())
    }
}

impl EngineOptions {
    /// # Errors
    /// Why no deployment of this size can run this design with these options.
    pub fn check(&self, design: DesignKind, size: Size) -> Result<(), String> {
        one_worker(design, size)?;
        self.check_trees(design)?;
        self.check_heaps(design)?;
        self.check_partitions(design, size)?;
        self.check_balance(design)
    }

    fn check_trees(&self, design: DesignKind) -> Result<(), String> {
        if !design.owns_pages() || self.trees == TreeKind::MultiRooted {
            return Ok(());
        }
        Err(format!(
            "--design {design}: workers own partitions of multi-rooted trees; expected --tree mrbtree, got {}",
            self.trees.name()
        ))
    }

    fn check_heaps(&self, design: DesignKind) -> Result<(), String> {
        let form = design.heap_form();
        if form == HeapForm::Shared || self.heaps == form {
            return Ok(());
        }
        Err(format!(
            "--design {design}: workers own heap pages, divided by {}; expected --heap {0}, got {}",
            form.name(),
            self.heaps.name()
        ))
    }

    fn check_partitions(&self, design: DesignKind, size: Size) -> Result<(), String> {
        let Some(parts) = self.partitions else { return Ok(()) };
        if self.trees != TreeKind::MultiRooted {
            return Err(format!(
                "--partitions {parts}: only multi-rooted trees have partitions; expected --tree mrbtree with it"
            ));
        }
        if !design.owns_keys() || size.has_room_for(parts) {
            return Ok(());
        }
        let fewest = size.fewest_sites();
        Err(format!(
            "--partitions {parts}: more than the {} of an instance, which no partition cuts; expected {fewest} at most, or \
             raise --scale",
            counted(fewest, "site")
        ))
    }

    fn check_balance(&self, design: DesignKind) -> Result<(), String> {
        if self.balance.mode == Mode::Off || design.owns_keys() {
            return Ok(());
        }
        Err(format!(
            "--balance {}: only workers that own keys have anything to balance; expected --design logical, plp-regular, \
             plp-partition or plp-leaf, got {design}",
            self.balance.mode
        ))
    }
}

/// Under `serial` nothing keeps two workers of an instance apart.
fn one_worker(design: DesignKind, size: Size) -> Result<(), String> {
    let Size { islands, workers, .. } = size;
    if !design.is_single_threaded() || workers == islands {
        return Ok(());
    }
    Err(format!(
        "--design {design}: it has one worker per instance; expected --workers {islands} with --islands {islands}, got \
         {workers}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Balance;

    const SIZE: Size = Size { islands: 2, workers: 4, sites: 10 };

    fn refusal(design: DesignKind, change: impl Fn(&mut EngineOptions)) -> String {
        let mut options = EngineOptions::of(design);
        change(&mut options);
        options.check(design, SIZE).err().unwrap_or_default()
    }

    #[test]
    fn the_defaults_of_every_design_make_sense() {
        for design in DesignKind::ALL {
            let workers = if design.is_single_threaded() { SIZE.islands } else { SIZE.workers };
            let size = Size { workers, ..SIZE };
            assert_eq!(EngineOptions::of(design).check(design, size), Ok(()), "{design}");
        }
    }

    #[test]
    fn a_refusal_names_the_option_and_the_remedy() {
        use DesignKind::{Conventional, Logical, PlpLeaf, PlpRegular, Serial};
        let on = Balance { mode: Mode::On, ..Balance::default() };
        for (text, parts) in [
            (refusal(Serial, |_| {}), ["--design serial", "--workers 2"]),
            (refusal(PlpRegular, |o| o.trees = TreeKind::BTree), ["--design plp-regular", "--tree mrbtree"]),
            (
                refusal(PlpLeaf, |o| o.heaps = HeapForm::Shared),
                ["divided by leaf", "--heap leaf, got shared"],
            ),
            (refusal(Conventional, |o| o.partitions = Some(4)), ["--partitions 4", "--tree mrbtree"]),
            (refusal(PlpRegular, |o| o.partitions = Some(6)), ["--partitions 6", "5 sites"]),
            (refusal(Conventional, |o| o.balance = on), ["--balance on", "--design logical"]),
        ] {
            assert!(parts.iter().all(|part| text.contains(part)), "{text:?}: expected {parts:?}");
        }
        assert_eq!(refusal(Logical, |o| o.balance = on), "");
        assert_eq!(refusal(PlpRegular, |o| o.partitions = Some(5)), "");
    }
}
