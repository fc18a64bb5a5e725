// lib/pq under database/sql: prepared and ad-hoc statements, transactions, COPY, pings, time-outs.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/lib/pq"
)

var ctx = context.Background()

// The statement that runs.
var last string

func exec(db *sql.DB, statements ...string) error {
	for _, last = range statements {
		if _, err := db.Exec(last); err != nil {
			return err
		}
	}
	return nil
}

func state(err error) string {
	var told *pq.Error
	if errors.As(err, &told) {
		return string(told.Code)
	}
	return ""
}

func values(db *sql.DB) error {
	if err := exec(db, "DROP TABLE IF EXISTS lq",
		"CREATE TABLE lq (id int PRIMARY KEY, t text, ts timestamp, n decimal(10,2), y bytea, f float8, o bool)"); err != nil {
		return err
	}
	at := time.Date(2024, 2, 29, 1, 2, 3, 0, time.UTC)
	last = "INSERT INTO lq VALUES ($1,$2,$3,$4,$5,$6,$7)"
	if _, err := db.Exec(last, 1, "ü", at, 12.5, []byte{0, 255}, 1.25, true); err != nil {
		return err
	}
	last = "SELECT t, ts, n, y, f, o FROM lq WHERE id = $1"
	prepared, err := db.Prepare(last)
	if err != nil {
		return err
	}
	defer prepared.Close()
	var (
		t  string
		ts time.Time
		n  string
		y  []byte
		f  float64
		o  bool
	)
	for i := 0; i < 3; i++ {
		if err := prepared.QueryRow(1).Scan(&t, &ts, &n, &y, &f, &o); err != nil {
			return err
		}
	}
	if t != "ü" || !ts.Equal(at) || n != "12.50" || len(y) != 2 || f != 1.25 || !o {
		return fmt.Errorf("found %v %v %v %v %v %v", t, ts, n, y, f, o)
	}
	return nil
}

func transactions(db *sql.DB) error {
	if err := exec(db, "DROP TABLE IF EXISTS lt", "CREATE TABLE lt (id int PRIMARY KEY)"); err != nil {
		return err
	}
	last = "BEGIN ISOLATION LEVEL SERIALIZABLE"
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	last = "INSERT INTO lt VALUES ($1)"
	if _, err := tx.Exec(last, 1); err != nil {
		return err
	}
	if _, err := tx.Exec(last, 1); state(err) != "23505" {
		return fmt.Errorf("found %v, expected 23505", err)
	}
	if _, err := tx.Exec(last, 2); state(err) != "25P02" {
		return fmt.Errorf("found %v, expected 25P02", err)
	}
	return nil
}

func copies(db *sql.DB) error {
	if err := exec(db, "DROP TABLE IF EXISTS lc", "CREATE TABLE lc (id int PRIMARY KEY, v text)"); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	last = pq.CopyIn("lc", "id", "v")
	into, err := tx.Prepare(last)
	if err != nil {
		return err
	}
	for i := 0; i < 1000; i++ {
		if _, err := into.Exec(i, fmt.Sprint("v\t", i)); err != nil {
			return err
		}
	}
	if _, err := into.Exec(); err != nil {
		return err
	}
	if err := into.Close(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	last = "SELECT count(*) FROM lc"
	var count int
	if err := db.QueryRow(last).Scan(&count); err != nil {
		return err
	}
	if count != 1000 {
		return fmt.Errorf("found %d rows, expected 1000", count)
	}
	return nil
}

func pings(db *sql.DB) error {
	last = "ping"
	return db.Ping()
}

func timeouts(db *sql.DB) error {
	if err := exec(db, "DROP TABLE IF EXISTS lw", "CREATE TABLE lw (id int PRIMARY KEY, v int)", "INSERT INTO lw VALUES (1, 0)"); err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	last = "UPDATE lw SET v = 1 WHERE id = 1"
	if _, err := tx.Exec(last); err != nil {
		return err
	}
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := db.ExecContext(short, last); err == nil {
		return errors.New("the update did not wait")
	}
	return nil
}

func main() {
	unsupported := regexp.MustCompile(`\b(pg_[a-z]+|information_schema)\b|is not supported`)
	db, err := sql.Open("postgres", "")
	if err != nil {
		fmt.Println("FAILED connect:", err)
		os.Exit(1)
	}
	failed := false
	for _, check := range []struct {
		name string
		run  func(*sql.DB) error
	}{{"pings", pings}, {"values", values}, {"transactions", transactions}, {"copies", copies}, {"timeouts", timeouts}} {
		if err := check.run(db); err == nil {
			fmt.Println("ok", check.name)
			continue
		} else {
			failed = true
			word := "FAILED"
			if unsupported.MatchString(last + err.Error()) {
				word = "unsupported"
			}
			fmt.Printf("%s %s: %s; at: %s\n", word, check.name, strings.Join(strings.Fields(err.Error()), " "), last)
		}
	}
	if failed {
		os.Exit(1)
	}
}
