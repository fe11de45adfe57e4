// Command shop is the sample application of the rig: a front end, a back end, a worker, a database
// and their customers. The first argument chooses the role, the environment the addresses. `fill`
// and `sleep` are for faults.
//
// The database answers a write only when the record is on its volume, so that a customer who got
// an answer can prove a lost write.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

var client = &http.Client{Timeout: 2 * time.Second}

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	hold(number("CACHE_MB", 4))
	switch role {
	case "database":
		serveDatabase(setting("DATA_DIR", "/data"))
	case "backend":
		serve(role, map[string]http.HandlerFunc{
			"/orders": pass(required("DATABASE_URL") + "/records"),
			"/readyz": pass(required("DATABASE_URL") + "/healthz"),
		})
	case "frontend":
		serve(role, map[string]http.HandlerFunc{"/": pass(required("BACKEND_URL"))})
	case "worker":
		work(required("DATABASE_URL") + "/records")
	case "customers":
		buy(required("FRONTEND_URL")+"/orders", setting("REPORT", "report.json"), number("RATE", 5))
	case "fill":
		fill(setting("DATA_DIR", "/data"), number("FILL_MB", 1))
		rest()
	case "sleep":
		rest()
	default:
		fmt.Fprintln(os.Stderr, "usage: shop database|backend|frontend|worker|customers|fill|sleep")
		os.Exit(2)
	}
}

func rest() {
	for {
		time.Sleep(time.Hour)
	}
}

// fill writes a file of that size, as a log without a limit would.
func fill(directory string, megabytes int) {
	file, err := os.Create(filepath.Join(directory, "fill"))
	if err != nil {
		log.Fatal("fatal: ", err)
	}
	for range megabytes {
		if _, err := file.Write(make([]byte, 1<<20)); err != nil {
			log.Fatal("fatal: ", err)
		}
	}
	log.Printf("%d MB written", megabytes)
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func required(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("fatal: the environment variable %s is not set", name)
	}
	return value
}

func number(name string, otherwise int) int {
	value, err := strconv.Atoi(setting(name, strconv.Itoa(otherwise)))
	if err != nil {
		log.Fatalf("fatal: %s=%q is not a number", name, os.Getenv(name))
	}
	return value
}

var cache []byte

// hold touches every page, because memory that is only reserved is not counted.
func hold(megabytes int) {
	cache = make([]byte, megabytes<<20)
	for at := 0; at < len(cache); at += 4096 {
		cache[at] = 1
	}
}

func serve(role string, routes map[string]http.HandlerFunc) {
	mux := http.NewServeMux()
	for path, handler := range routes {
		mux.HandleFunc(path, handler)
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	time.Sleep(time.Duration(number("START_S", 0)) * time.Second)
	address := setting("LISTEN", ":8080")
	log.Printf("%s listens on %s", role, address)
	log.Fatal("fatal: ", http.ListenAndServe(address, mux))
}

// pass sends a request on and its answer back; what is below does not answer is a 502.
func pass(base string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		target := base
		if strings.Count(base, "/") == 2 {
			target += r.URL.Path
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, target+"?"+r.URL.RawQuery, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := client.Do(request)
		if err != nil {
			log.Printf("error: %v", err)
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		io.Copy(w, answer.Body)
	}
}

type database struct {
	lock    sync.Mutex
	file    *os.File
	records map[string]bool
}

func serveDatabase(directory string) {
	path := filepath.Join(directory, "records.log")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		log.Fatal("fatal: ", err)
	}
	db := &database{file: file, records: map[string]bool{}}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		db.records[lines.Text()] = true
	}
	log.Printf("%d records in %s", len(db.records), path)
	serve("database", map[string]http.HandlerFunc{"/records": db.handle})
}

func (db *database) handle(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	db.lock.Lock()
	defer db.lock.Unlock()
	switch {
	case r.Method == http.MethodGet && key == "":
		fmt.Fprintln(w, len(db.records))
	case r.Method == http.MethodGet && db.records[key]:
		fmt.Fprintln(w, key)
	case r.Method == http.MethodGet:
		http.NotFound(w, r)
	default:
		if _, err := fmt.Fprintln(db.file, key); err == nil {
			err = db.file.Sync()
			if err == nil {
				db.records[key] = true
				fmt.Fprintln(w, key)
				return
			}
		}
		log.Printf("error: cannot write the record %q", key)
		http.Error(w, "cannot write", http.StatusInternalServerError)
	}
}

func work(records string) {
	for ; ; time.Sleep(time.Second) {
		answer, err := client.Get(records)
		if err != nil {
			log.Printf("error: %v", err)
			continue
		}
		count, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		log.Printf("%s orders so far", strings.TrimSpace(string(count)))
	}
}

// buy writes steadily and reads back what was acknowledged, the oldest record first.
func buy(orders, report string, rate int) {
	var lock sync.Mutex
	var acknowledged []string
	sent, failed, checked, lost := 0, 0, 0, 0
	start := time.Now()
	ticks := time.NewTicker(time.Second / time.Duration(rate))
	for range ticks.C {
		lock.Lock()
		sent++
		key := fmt.Sprintf("%d-%d", start.UnixNano(), sent)
		again := ""
		if sent%2 == 0 && len(acknowledged) > 0 {
			again = acknowledged[checked%len(acknowledged)]
			checked++
		}
		text := fmt.Sprintf(`{"sent": %d, "failed": %d, "acknowledged": %d, "read_back": %d, "lost": %d}`,
			sent, failed, len(acknowledged), checked, lost)
		lock.Unlock()
		if err := os.WriteFile(report+".new", []byte(text+"\n"), 0o600); err == nil {
			os.Rename(report+".new", report)
		}
		go func() {
			written, err := client.Post(orders+"?key="+key, "text/plain", nil)
			ok := err == nil && written.StatusCode == http.StatusOK
			if err == nil {
				written.Body.Close()
			}
			missing := false
			if again != "" {
				if answer, err := client.Get(orders + "?key=" + again); err == nil {
					missing = answer.StatusCode == http.StatusNotFound
					answer.Body.Close()
				}
			}
			lock.Lock()
			defer lock.Unlock()
			if ok {
				acknowledged = append(acknowledged, key)
			} else {
				failed++
			}
			if missing {
				lost++
			}
		}()
	}
}
