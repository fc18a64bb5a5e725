//! Where a dump is written: standard output, a file, or a directory of files of rows. A name
//! appears when the thing is whole.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

/// The name of what is not whole yet is the name with this ending.
const PARTIAL: &str = ".atoll-partial";
/// The script in a directory of files of rows.
pub const SCRIPT: &str = "load.sql";

pub struct Sink {
    script: Script,
    /// What is written, and what it will be called.
    named: Option<(PathBuf, PathBuf)>,
    /// The file of the rows that are under way.
    rows: Option<BufWriter<File>>,
    pub bytes: u64,
}

enum Script {
    Output(Stdout),
    File(BufWriter<File>),
}

impl Sink {
    pub fn output() -> Sink {
        Sink { script: Script::Output(io::stdout()), named: None, rows: None, bytes: 0 }
    }

    /// # Errors
    /// There is something of the name, or the file cannot be made.
    pub fn file(to: &Path) -> Result<Sink, Failure> {
        let partial = beginning(to)?;
        let file = File::create(&partial).map_err(|why| in_file(&partial, &why))?;
        Ok(Sink {
            script: Script::File(BufWriter::new(file)),
            named: Some((partial, to.to_owned())),
            rows: None,
            bytes: 0,
        })
    }

    /// # Errors
    /// As [`Sink::file`].
    pub fn directory(to: &Path) -> Result<Sink, Failure> {
        let partial = beginning(to)?;
        fs::create_dir(&partial).map_err(|why| in_file(&partial, &why))?;
        let script = partial.join(SCRIPT);
        let file = File::create(&script).map_err(|why| in_file(&script, &why));
        let named = Some((partial, to.to_owned()));
        let mut sink = Sink { script: Script::Output(io::stdout()), named, rows: None, bytes: 0 };
        sink.script = Script::File(BufWriter::new(file?));
        Ok(sink)
    }

    /// Adds to the script.
    ///
    /// # Errors
    /// I/O; standard output was closed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len() as u64;
        match &mut self.script {
            Script::Output(output) => output.write_all(bytes).map_err(|why| match why.kind() {
                io::ErrorKind::BrokenPipe => Failure::OutputClosed,
                _ => Failure::Run(format!("standard output: {why}")),
            }),
            Script::File(file) => file.write_all(bytes).map_err(|why| self.cannot(&why)),
        }
    }

    /// Begins a file of rows in the directory.
    ///
    /// # Errors
    /// I/O.
    pub fn begin_rows(&mut self, name: &str) -> Result<(), Failure> {
        let Some((partial, _)) = &self.named else { return Ok(()) };
        let path = partial.join(name);
        self.rows = Some(BufWriter::new(File::create(&path).map_err(|why| in_file(&path, &why))?));
        Ok(())
    }

    /// Adds rows: to the file that was begun, else to the script.
    ///
    /// # Errors
    /// I/O.
    pub fn write_rows(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(rows) = &mut self.rows else { return self.write(bytes) };
        self.bytes += bytes.len() as u64;
        rows.write_all(bytes).map_err(|why| self.cannot(&why))
    }

    /// Gives the file of rows to a writer that has a form of its own.
    pub fn take_rows(&mut self) -> Option<BufWriter<File>> {
        self.rows.take()
    }

    /// Takes the file of rows back.
    ///
    /// # Errors
    /// I/O.
    pub fn give_rows(&mut self, mut rows: BufWriter<File>) -> Result<(), Failure> {
        let length = rows.flush().and_then(|()| rows.get_ref().metadata());
        self.bytes += length.map_err(|why| self.cannot(&why))?.len();
        self.rows = Some(rows);
        Ok(())
    }

    /// # Errors
    /// I/O.
    pub fn end_rows(&mut self) -> Result<(), Failure> {
        match self.rows.take() {
            Some(rows) => kept(rows).map_err(|why| self.cannot(&why)),
            None => Ok(()),
        }
    }

    /// Gives the dump its name.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.script, Script::Output(io::stdout())) {
            Script::Output(mut output) => output.flush().map_err(|why| self.cannot(&why))?,
            Script::File(file) => kept(file).map_err(|why| self.cannot(&why))?,
        }
        if let Some((partial, to)) = self.named.take()
            && let Err(why) = fs::rename(&partial, &to)
        {
            self.named = Some((partial, to));
            return Err(self.cannot(&why));
        }
        Ok(())
    }

    fn cannot(&self, why: &io::Error) -> Failure {
        in_file(self.named.as_ref().map_or(Path::new("standard output"), |(_, to)| to), why)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.named {
            remove(partial);
        }
    }
}

/// Writes what is left, to the device.
fn kept(file: BufWriter<File>) -> io::Result<()> {
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn in_file(path: &Path, why: &io::Error) -> Failure {
    Failure::Run(format!("{}: {why}", path.display()))
}

/// The path of a thing that will be called `to`. An earlier attempt that was killed is removed.
///
/// # Errors
/// There is something of that name.
pub fn beginning(to: &Path) -> Result<PathBuf, Failure> {
    if to.symlink_metadata().is_ok() {
        let why = format!("{} is there already; expected a name that is free", to.display());
        return Err(Failure::Usage(why));
    }
    let partial = partial(to);
    remove(&partial);
    Ok(partial)
}

/// What `to` is called until it is whole.
pub fn partial(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(PARTIAL);
    name.into()
}

/// Removes a file or a directory, if there is one.
pub fn remove(path: &Path) {
    // What cannot be removed is in the way of the next attempt, which says so.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}
