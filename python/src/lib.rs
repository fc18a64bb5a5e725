//! The module `atoll._atoll`: what the Python package needs of the library.
//!
//! Python has plain values only: rows as tuples of numbers, strings and bytes with the name of each
//! column's type, or a stream of Arrow batches. The package around it (`python/atoll`) makes dates
//! and decimals of them, and has the classes that users see. A call that waits for the database
//! lets other Python threads run.

#![forbid(unsafe_code)]

mod batches;
mod values;

use atoll::{Design, Durability, Error, Options, Outcome};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use std::sync::{Mutex, PoisonError};

create_exception!(_atoll, Failure, PyException, "An error: (text, SQLSTATE or None, detail, hint).");

fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Sql(sql) => Failure::new_err((sql.message, Some(sql.state), sql.detail, sql.hint)),
        _ => Failure::new_err((text, None::<String>, None::<String>, None::<String>)),
    }
}

/// An open database.
#[pyclass(frozen)]
struct Database(Mutex<Option<atoll::Database>>);

/// Opens the database in a directory, or one in memory if `path` is None.
#[pyfunction]
#[pyo3(signature = (path, design, islands, workers, durability, memory))]
fn open(
    py: Python<'_>,
    path: Option<String>,
    design: Option<&str>,
    islands: Option<u16>,
    workers: Option<usize>,
    durability: Option<&str>,
    memory: Option<u64>,
) -> PyResult<Database> {
    let mut options = Options::new();
    if let Some(name) = design {
        options =
            options.design(name.parse::<Design>().map_err(|why| PyValueError::new_err(why.to_string()))?);
    }
    options = match durability {
        None | Some("sync") => options,
        Some("async") => options.durability(Durability::Async),
        Some(other) => {
            return Err(PyValueError::new_err(format!("durability {other:?}: expected 'sync' or 'async'")));
        }
    };
    if let Some(islands) = islands {
        options = options.islands(islands);
    }
    if let Some(workers) = workers {
        options = options.workers(workers);
    }
    if let Some(bytes) = memory {
        options = options.memory(bytes);
    }
    let opened = py.detach(|| match &path {
        Some(path) => options.open(path),
        None => options.open_in_memory(),
    });
    Ok(Database(Mutex::new(Some(opened.map_err(raised)?))))
}

#[pymethods]
impl Database {
    fn connect(&self, py: Python<'_>) -> PyResult<Connection> {
        let connected = py.detach(|| {
            let database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            database.as_ref().map_or(Err(Error::Closed), atoll::Database::connect)
        });
        Ok(Connection(Mutex::new(Some(connected.map_err(raised)?))))
    }

    /// Serves clients of PostgreSQL's protocol; returns the address.
    fn listen(&self, py: Python<'_>, address: &str) -> PyResult<String> {
        let expected =
            |_| PyValueError::new_err(format!("address {address:?}: expected HOST:PORT in numbers"));
        let address = address.parse().map_err(expected)?;
        let bound = py.detach(|| {
            let database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            database.as_ref().map_or(Err(Error::Closed), |database| database.listen(address))
        });
        Ok(bound.map_err(raised)?.to_string())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            let database = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            database.map_or(Ok(()), atoll::Database::close)
        });
        closed.map_err(raised)
    }
}

/// A session.
#[pyclass(frozen)]
struct Connection(Mutex<Option<atoll::Connection>>);

impl Connection {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut atoll::Connection) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let outcome = py.detach(|| {
            let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            connection.as_mut().map_or(Err(Error::Closed), f)
        });
        outcome.map_err(raised)
    }
}

#[pymethods]
impl Connection {
    /// Runs one statement.
    fn run(&self, py: Python<'_>, text: &str, params: Vec<Bound<'_, PyAny>>) -> PyResult<Answer> {
        let params = params.iter().map(values::of_python).collect::<PyResult<Vec<_>>>()?;
        self.with(py, |connection| connection.run(text, params)).map(Answer)
    }

    /// Runs several statements without parameters.
    fn batch(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.with(py, |connection| connection.batch(text))
    }

    fn is_in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |connection| Ok(connection.is_in_transaction()))
    }

    fn close(&self, py: Python<'_>) {
        let connection = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(connection);
    }
}

/// The result of a statement.
#[pyclass(frozen)]
struct Answer(Outcome);

#[pymethods]
impl Answer {
    /// The number of rows that were selected or changed.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count
    }

    /// Names and types of the columns.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.0.columns.iter().map(|column| (column.name.clone(), values::type_name(column.ty))).collect()
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.0.rows.len()
    }

    /// The rows from `first` up to below `end`, as tuples of plain values.
    fn rows<'py>(&self, py: Python<'py>, first: usize, end: usize) -> PyResult<Bound<'py, PyList>> {
        let end = end.min(self.0.rows.len());
        let rows = self.0.rows.get(first.min(end)..end).unwrap_or_default().iter().map(|row| {
            let values = row.iter().zip(&*self.0.columns);
            let values = values.map(|(value, column)| values::to_python(py, column.ty, value));
            PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
        });
        PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
    }

    /// A stream of one Arrow batch, in the form of the Arrow PyCapsule interface.
    fn arrow_stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let stream = batches::stream(&self.0).map_err(|why| PyValueError::new_err(why.to_string()))?;
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

#[pymodule]
fn _atoll(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Failure", module.py().get_type::<Failure>())?;
    module.add_class::<Database>()?;
    module.add_class::<Connection>()?;
    module.add_class::<Answer>()?;
    module.add_function(wrap_pyfunction!(open, module)?)
}
