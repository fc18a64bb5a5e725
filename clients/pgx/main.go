// pgx 5: named statements, binary values, batches, COPY, isolation levels, pools, cancel by context.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

// The statement that runs.
var last string

type noting struct{}

func (noting) TraceQueryStart(c context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	last = data.SQL
	return c
}

func (noting) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func connect() (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.Tracer = noting{}
	return pgx.ConnectConfig(ctx, config)
}

func state(err error) string {
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code
	}
	return ""
}

func all(conn *pgx.Conn, statements ...string) error {
	for _, text := range statements {
		if _, err := conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func types(conn *pgx.Conn) error {
	if err := all(conn, "DROP TABLE IF EXISTS gx",
		"CREATE TABLE gx (id int PRIMARY KEY, b bigint, t text, ts timestamptz, n numeric(10,2), y bytea, f float8, o bool)"); err != nil {
		return err
	}
	at := time.Date(2024, 2, 29, 1, 2, 3, 4000, time.UTC)
	if _, err := conn.Exec(ctx, "INSERT INTO gx VALUES ($1,$2,$3,$4,$5,$6,$7,$8)",
		1, int64(1)<<60, "ü", at, "12.50", []byte{0, 255}, 1.25, true); err != nil {
		return err
	}
	var (
		b  int64
		t  string
		ts time.Time
		n  string
		y  []byte
		f  float64
		o  bool
	)
	err := conn.QueryRow(ctx, "SELECT b, t, ts, n::text, y, f, o FROM gx WHERE id = $1", 1).Scan(&b, &t, &ts, &n, &y, &f, &o)
	if err != nil {
		return err
	}
	if b != 1<<60 || t != "ü" || !ts.Equal(at) || n != "12.50" || len(y) != 2 || f != 1.25 || !o {
		return fmt.Errorf("found %v %v %v %v %v %v %v", b, t, ts, n, y, f, o)
	}
	return nil
}

func batches(conn *pgx.Conn) error {
	if err := all(conn, "DROP TABLE IF EXISTS gb", "CREATE TABLE gb (id int PRIMARY KEY, v int)"); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	for i := 0; i < 20; i++ {
		batch.Queue("INSERT INTO gb VALUES ($1, $2)", i, i*i)
	}
	batch.Queue("SELECT count(*) FROM gb")
	last = "a batch"
	results := conn.SendBatch(ctx, batch)
	for i := 0; i < 20; i++ {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	var count int
	if err := results.QueryRow().Scan(&count); err != nil {
		return err
	}
	if count != 20 {
		return fmt.Errorf("found %d rows, expected 20", count)
	}
	return results.Close()
}

func copies(conn *pgx.Conn) error {
	if err := all(conn, "DROP TABLE IF EXISTS gc", "CREATE TABLE gc (id int PRIMARY KEY, v text)"); err != nil {
		return err
	}
	last = "CopyFrom"
	count, err := conn.CopyFrom(ctx, pgx.Identifier{"gc"}, []string{"id", "v"},
		pgx.CopyFromSlice(1000, func(i int) ([]any, error) { return []any{i, fmt.Sprint(i)}, nil }))
	if err == nil && count != 1000 {
		err = fmt.Errorf("copied %d rows, expected 1000", count)
	}
	return err
}

func transactions(conn *pgx.Conn) error {
	if err := all(conn, "DROP TABLE IF EXISTS gt", "CREATE TABLE gt (id int PRIMARY KEY)"); err != nil {
		return err
	}
	options := pgx.TxOptions{IsoLevel: pgx.Serializable}
	err := pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO gt VALUES (1)"); err != nil {
			return err
		}
		inner := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO gt VALUES (1)")
			return err
		})
		if state(inner) != "23505" {
			return fmt.Errorf("found %v, expected 23505", inner)
		}
		return nil
	})
	if err != nil {
		return err
	}
	read := pgx.TxOptions{AccessMode: pgx.ReadOnly}
	refused := pgx.BeginTxFunc(ctx, conn, read, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO gt VALUES (2)")
		return err
	})
	if state(refused) != "25006" {
		return fmt.Errorf("found %v, expected 25006", refused)
	}
	return nil
}

// Statements that the client has cached follow a change of the table.
func definitions(conn *pgx.Conn) error {
	if err := all(conn, "DROP TABLE IF EXISTS gd", "CREATE TABLE gd (id int PRIMARY KEY)", "INSERT INTO gd VALUES (1)"); err != nil {
		return err
	}
	var id int
	for i := 0; i < 3; i++ {
		if err := conn.QueryRow(ctx, "SELECT id FROM gd WHERE id = $1", 1).Scan(&id); err != nil {
			return err
		}
		if i == 1 {
			if err := all(conn, "ALTER TABLE gd ADD COLUMN v int"); err != nil {
				return err
			}
		}
	}
	return nil
}

func cancelled(conn *pgx.Conn) error {
	holder, err := connect()
	if err != nil {
		return err
	}
	defer holder.Close(ctx)
	if err := all(holder, "DROP TABLE IF EXISTS gw", "CREATE TABLE gw (id int PRIMARY KEY, v int)", "INSERT INTO gw VALUES (1, 0)",
		"BEGIN", "UPDATE gw SET v = 1 WHERE id = 1"); err != nil {
		return err
	}
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := conn.Exec(short, "UPDATE gw SET v = 2 WHERE id = 1"); err == nil {
		return errors.New("the update did not wait")
	}
	return nil
}

func pools(*pgx.Conn) error {
	pool, err := pgxpool.New(ctx, "")
	if err != nil {
		return err
	}
	defer pool.Close()
	var group sync.WaitGroup
	failures := make(chan error, 40)
	for i := 0; i < 40; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			var found int
			if err := pool.QueryRow(ctx, "SELECT $1::int + 1", i).Scan(&found); err != nil {
				failures <- err
			} else if found != i+1 {
				failures <- fmt.Errorf("found %d, expected %d", found, i+1)
			}
		}()
	}
	group.Wait()
	close(failures)
	return <-failures
}

func main() {
	unsupported := regexp.MustCompile(`\b(pg_[a-z]+|information_schema)\b|is not supported`)
	failed := false
	for _, check := range []struct {
		name string
		run  func(*pgx.Conn) error
	}{{"types", types}, {"batches", batches}, {"copies", copies}, {"transactions", transactions},
		{"definitions", definitions}, {"cancelled", cancelled}, {"pools", pools}} {
		last = "connect"
		conn, err := connect()
		if err == nil {
			err = check.run(conn)
			conn.Close(ctx)
		}
		if err == nil {
			fmt.Println("ok", check.name)
			continue
		}
		failed = true
		word := "FAILED"
		if unsupported.MatchString(last + err.Error()) {
			word = "unsupported"
		}
		fmt.Printf("%s %s: %s; at: %s\n", word, check.name, strings.Join(strings.Fields(err.Error()), " "), last)
	}
	if failed {
		os.Exit(1)
	}
}
