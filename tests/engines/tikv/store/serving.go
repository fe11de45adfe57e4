package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const bodyBytesMax = 8 << 20

// listen opens both ports: one for other stores, one for people and their tools.
func (s *store) listen(ctx context.Context) error {
	service := http.NewServeMux()
	handle(service, "/peer/beat", s.hearBeat)
	handle(service, "/peer/vote", s.hearVotes)
	handle(service, "/peer/lead", s.hearLead)
	handle(service, "/peer/merge", s.hearMerge)
	handle(service, "/peer/append", s.hearAppend)
	status := http.NewServeMux()
	status.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {})
	status.HandleFunc("/metrics", s.metrics)
	status.HandleFunc("/region/", s.region)
	status.HandleFunc("/config", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(s.all)
	})
	for address, mux := range map[string]*http.ServeMux{s.addr: service, s.statusAddr: status} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		server := &http.Server{
			Handler:     s.dated(mux),
			BaseContext: func(net.Listener) context.Context { return ctx },
		}
		go server.Serve(listener)
	}
	go s.write(ctx)
	return nil
}

// region tells what is known of one region; of one that is not here, nothing.
func (s *store) region(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(strings.TrimPrefix(r.URL.Path, "/region/"), 10, 64)
	s.mu.Lock()
	_, here := s.kept.Regions[id]
	s.mu.Unlock()
	if err != nil || !here {
		http.Error(w, "region not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]uint64{"id": id})
}

// dated lets every answer tell the time by this store's own clock.
func (s *store) dated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(s.clock).UTC().Format(http.TimeFormat))
		next.ServeHTTP(w, r)
	})
}

// handle serves one question that other stores ask in JSON; a no is a conflict.
func handle[Q, A any](mux *http.ServeMux, path string, hear func(context.Context, *Q) (*A, error)) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		var question Q
		body := http.MaxBytesReader(w, r.Body, bodyBytesMax)
		if err := json.NewDecoder(body).Decode(&question); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := hear(r.Context(), &question)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	})
}
