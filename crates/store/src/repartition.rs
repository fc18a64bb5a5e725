//! Splitting and merging the partitions of multi-rooted trees, and giving them owners.
//!
//! Nothing here decides: which keys partitions begin at, who owns them and when that changes is the caller's business. Each split and
//! merge is one record of the system: a crash finds it whole or not at all, whatever transactions are running.

use crate::definition::HeapForm;
use crate::open::Store;
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

    /// Where the partitions of an index begin (a table's id stands for its primary tree), in order, the first one with the empty key;
    /// none for one that is not multi-rooted. What is told may have changed at once, unless the caller sees to it.
    pub fn partitions(&self, index: TableId) -> Vec<Key> {
        self.catalog.tree(index).map(|(place, _)| self.tree_at(place, index).partitions()).unwrap_or_default()
    }

    /// Rows go to other pages than the last ones of their partition, which may be another by now.
    fn forget_groups(&self, index: TableId) {
        if let Some(table) = self.table(index) {
            table.insert_pages.forget_groups();
        }
    }

    /// Makes a partition of `index` begin at `key`; gives what that moved. Where heap pages are divided, rows on both sides of the key
    /// must be apart already ([`Store::divide_rows`]). Blocks for absent pages.
    ///
    /// # Errors
    /// [`Stop::Fault`] when there is no such index, when it is not multi-rooted, or when the key is too long; [`Stop::NoSpace`].
    /// No partition has changed.
    pub fn split_partition<P: Policies>(&self, index: TableId, key: &[u8]) -> Result<Moved, Stop> {
        let (tree, role) = self.partitioned(index)?;
        self.forget_groups(index);
        let mut journal = self.system(Lsn(0));
        self.insist(|| match role {
            TreeRole::Primary => tree.split_partition::<P::Index>(&mut journal, key),
            TreeRole::Secondary => tree.split_partition::<P::Secondary>(&mut journal, key),
        })
    }

    /// Makes the partition of `index` that begins at `key` a part of the one before it; gives what that moved. Blocks for
    /// absent pages. Owned partitions have the same owner, for whom the calling thread acts.
    ///
    /// # Errors
    /// [`Stop::Fault`] when there is no such partition, or none before it; [`Stop::NoSpace`]. No partition has changed.
    pub fn merge_partition<P: Policies>(&self, index: TableId, key: &[u8]) -> Result<Moved, Stop> {
        let (tree, role) = self.partitioned(index)?;
        self.forget_groups(index);
        let mut journal = self.system(Lsn(0));
        self.insist(|| match role {
            TreeRole::Primary => tree.merge_partition::<P::Index>(&mut journal, key),
            TreeRole::Secondary => tree.merge_partition::<P::Secondary>(&mut journal, key),
        })
    }

    /// All pages of the partition of `index` that covers `key` become the property of the owner for whom the calling thread
    /// acts ([`latch::act_for`]); gives their number. Nobody else is at work on the partition.
    ///
    /// # Errors
    /// [`Stop::Fault`] when there is no such index, or a page is another owner's already.
    pub fn own_partition(&self, index: TableId, key: &[u8]) -> Result<usize, Stop> {
        let (tree, _) = self.partitioned(index)?;
        self.insist(|| tree.partition(key).own_pages())
    }

    /// They become nobody's: latches protect them again, and the heap pages of their rows if those have owners. The calling thread
    /// acts for their owner, and no transaction is running that has changed the partition.
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
