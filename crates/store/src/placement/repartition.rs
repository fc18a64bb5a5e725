//! Splitting and merging the partitions of multi-rooted trees, and assigning owners.
//!
//! The caller decides the borders of partitions, their owners, and the time of changes. Each split
//! or merge is one system record: a crash keeps it whole or not at all, independent of running
//! transactions.

use crate::catalog::definition::HeapForm;
use crate::state::store::Store;
use access::{BTree, Moved, TreeRole};
use base::{Key, Lsn, TableId};
use latch::{ByPage, Policies};
use pages::{PageFault, Stop};

impl Store {
    fn partitioned(&self, index: TableId) -> Result<(BTree<'_>, TreeRole), Stop> {
        let tree = self.catalog.tree(index).map(|(place, role)| (self.tree_at(place, index), role));
        let what = "there is no index with this id";
        tree.ok_or_else(|| Stop::Fault(PageFault::Disordered { what }.into()))
    }

    /// The first keys of an index's partitions, in order; the first of them is the empty key. A
    /// table's id stands for its primary tree. Empty for a tree that is not multi-rooted. Another
    /// thread may change the partitions at once, unless the caller prevents that.
    pub fn partitions(&self, index: TableId) -> Vec<Key> {
        self.catalog.tree(index).map(|(place, _)| self.tree_at(place, index).partitions()).unwrap_or_default()
    }

    /// Forgets the last page of each partition, because the partitions change.
    fn forget_groups(&self, index: TableId) {
        if let Some(table) = self.table(index) {
            table.insert_pages.forget_groups();
        }
    }

    /// Splits a partition of `index`, so that one begins at `key`. Returns the work done. Where
    /// heap pages are divided, the rows on both sides of the key must be in different pages already
    /// ([`Store::divide_rows`]). Blocks for absent pages.
    ///
    /// # Errors
    /// [`Stop::Fault`] if the index does not exist or is not multi-rooted, or if the key is too
    /// long; [`Stop::NoSpace`]. No partition has changed.
    pub fn split_partition<P: Policies>(&self, index: TableId, key: &[u8]) -> Result<Moved, Stop> {
        let (tree, role) = self.partitioned(index)?;
        self.forget_groups(index);
        let mut journal = self.system(Lsn(0));
        self.insist(|| match role {
            TreeRole::Primary => tree.split_partition::<P::Index>(&mut journal, key),
            TreeRole::Secondary => tree.split_partition::<P::Secondary>(&mut journal, key),
        })
    }

    /// Merges the partition of `index` that begins at `key` into the one before it. Returns the
    /// work done. If the partitions are owned, both have the same owner, and the calling thread
    /// acts for it. Blocks for absent pages.
    ///
    /// # Errors
    /// [`Stop::Fault`] if the partition does not exist or is the first one; [`Stop::NoSpace`]. No
    /// partition has changed.
    pub fn merge_partition<P: Policies>(&self, index: TableId, key: &[u8]) -> Result<Moved, Stop> {
        let (tree, role) = self.partitioned(index)?;
        self.forget_groups(index);
        let mut journal = self.system(Lsn(0));
        self.insist(|| match role {
            TreeRole::Primary => tree.merge_partition::<P::Index>(&mut journal, key),
            TreeRole::Secondary => tree.merge_partition::<P::Secondary>(&mut journal, key),
        })
    }

    /// Gives all pages of the partition of `index` that covers `key` to the owner for which the
    /// calling thread acts ([`latch::act_for`]). Returns their number. No other thread may use the
    /// partition meanwhile.
    ///
    /// # Errors
    /// [`Stop::Fault`] if the index does not exist, or a page has another owner already.
    pub fn own_partition(&self, index: TableId, key: &[u8]) -> Result<usize, Stop> {
        let (tree, _) = self.partitioned(index)?;
        self.insist(|| tree.partition(key).own_pages())
    }

    /// Ends the ownership of the partition's pages, so that latches protect them again. If heap
    /// pages are divided, this includes the owned heap pages of its rows. The calling thread acts
    /// for their owner, and no running transaction has changed the partition.
    ///
    /// # Errors
    /// As [`Store::own_partition`].
    pub fn disown_partition(&self, index: TableId, key: &[u8]) -> Result<usize, Stop> {
        let (tree, _) = self.partitioned(index)?;
        if let Some(table) = self.table(index).filter(|table| table.form() != HeapForm::Shared) {
            let pages = self.pages_of_partition::<ByPage>(table, key)?;
            pages.iter().try_for_each(|page| self.pool.disown(*page))?;
        }
        self.insist(|| tree.partition(key).disown_pages())
    }
}
