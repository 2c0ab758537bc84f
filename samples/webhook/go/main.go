// A webhook receiver: each Idempotency-Key is processed once, and every delivery gets the same
// answer.
//
// Needs lib/pq; ../schema.sql has the table. With pgx, import github.com/jackc/pgx/v5/stdlib, open
// "pgx", and take the SQLSTATE from *pgconn.PgError.
//
//	Debian: apt-get install golang-go golang-github-lib-pq-dev
//	        GO111MODULE=off GOPATH=/usr/share/gocode go build -o webhook main.go
//	Run:    PGHOST=... PGDATABASE=... PGUSER=shop PGSSLMODE=... PORT=8080 ./webhook
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/lib/pq"
)

const attempts = 6

// Another attempt may succeed: deadlock, serialization failure, and what exactonce says of keys
// that are in progress or lost, and of DynamoDB when it does not answer.
var passing = map[string]bool{"40001": true, "40P01": true, "ID001": true, "ID002": true, "ID006": true}

type event struct {
	Invoice *int `json:"invoice"`
	Amount  *int `json:"amount"`
}

type claim struct {
	Outcome    string
	HTTPStatus int
	RetryAfter sql.NullInt64
	Result     []byte
}

// The work. Whatever it does in this transaction is done once.
func takePayment(ctx context.Context, tx *sql.Tx, e event) ([]byte, error) {
	var receipt int
	err := tx.QueryRowContext(ctx, "INSERT INTO payments (invoice, amount) VALUES ($1, $2) RETURNING receipt",
		e.Invoice, e.Amount).Scan(&receipt)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]int{"receipt": receipt})
}

// One attempt, which is one transaction: claim, work, completion.
func process(ctx context.Context, db *sql.DB, key string, e event) (*claim, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // nothing, after a COMMIT
	payload, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var c claim
	err = tx.QueryRowContext(ctx, `SELECT outcome, http_status, retry_after, result
		FROM idem_acquire($1, payload => $2, wait => '5s')`, key, string(payload)).
		Scan(&c.Outcome, &c.HTTPStatus, &c.RetryAfter, &c.Result)
	if err != nil {
		return nil, err
	}
	if c.Outcome == "acquired" {
		if c.Result, err = takePayment(ctx, tx, e); err != nil {
			return nil, err
		}
		if _, err = tx.ExecContext(ctx, "SELECT idem_complete($1, $2)", key, string(c.Result)); err != nil {
			return nil, err
		}
	}
	if err = tx.Commit(); err != nil {
		return nil, err
	}
	return &c, nil // it has committed: only now may others be told
}

// The SQLSTATE; empty if the connection was lost.
func sqlstate(err error) string {
	var e *pq.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return ""
}

// May the next attempt succeed?
func mayPass(err error) bool {
	state := sqlstate(err)
	return state == "" || passing[state] || state[:2] == "08" || state[:2] == "57"
}

// If the connection was lost in COMMIT, the next claim finds out whether it had committed.
func processWithRetries(ctx context.Context, db *sql.DB, key string, e event) (*claim, error) {
	pause := 200 * time.Millisecond
	for attempt := 1; ; attempt++ {
		c, err := process(ctx, db, key, e)
		if err == nil || attempt == attempts || !mayPass(err) {
			return c, err
		}
		log.Printf("attempt %d for %s: %v", attempt, key, err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Duration(float64(pause) * (0.5 + rand.Float64()/2))):
		}
		if pause < 2*time.Second {
			pause *= 2
		}
	}
}

func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

func webhook(db *sql.DB, w http.ResponseWriter, r *http.Request) {
	var e event
	key := r.Header.Get("Idempotency-Key")
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&e)
	if key == "" || err != nil || e.Invoice == nil || e.Amount == nil {
		answer(w, 400, []byte(`{"error": "a header Idempotency-Key, and an invoice and an amount are needed"}`))
		return
	}
	// With more than one sender, the sender is a part of the key.
	c, err := processWithRetries(r.Context(), db, "webhook/"+key, e)
	if err != nil {
		state := sqlstate(err)
		switch {
		case state == "ID003":
			answer(w, 422, []byte(`{"error": "this key was used for another event"}`))
		case state != "" && (state[:2] == "22" || state[:2] == "23"):
			answer(w, 422, []byte(`{"error": "this event cannot be processed"}`))
		case mayPass(err):
			w.Header().Set("Retry-After", "5")
			answer(w, 503, []byte(`{"error": "try again"}`))
		default:
			log.Printf("%s: %v", key, err)
			answer(w, 500, []byte(`{"error": "for people to look at"}`))
		}
		return
	}
	if c.Outcome == "completed" {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	if c.RetryAfter.Valid {
		w.Header().Set("Retry-After", strconv.FormatInt(c.RetryAfter.Int64, 10))
	}
	if c.Result == nil {
		c.Result, _ = json.Marshal(map[string]string{"error": c.Outcome})
	}
	answer(w, c.HTTPStatus, c.Result)
}

func main() {
	// The address is in libpq's variables: PGHOST, PGDATABASE, PGUSER, ...
	db, err := sql.Open("postgres", "")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	http.HandleFunc("/webhook", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		webhook(db, w, r)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}
