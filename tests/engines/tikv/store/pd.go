package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	askTimeout  = 3 * time.Second
	againAfter  = 300 * time.Millisecond
	backoffMost = time.Second
	aliveAfter  = 10 * time.Second // the least that PD allows, and what TiKV has
)

// placement follows PD's leader: whoever fails is asked no more until somebody names the leader.
type placement struct {
	mu        sync.Mutex
	endpoints []string
	conns     map[string]*grpc.ClientConn
	leader    string
	cluster   uint64
}

func newPlacement(endpoints string) *placement {
	p := &placement{conns: map[string]*grpc.ClientConn{}}
	for _, each := range strings.Split(endpoints, ",") {
		p.endpoints = append(p.endpoints, bare(each))
	}
	return p
}

func bare(url string) string {
	_, rest, found := strings.Cut(strings.TrimSpace(url), "://")
	if !found {
		return strings.TrimSpace(url)
	}
	return strings.TrimSuffix(rest, "/")
}

func (p *placement) client(address string) (pdpb.PDClient, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn := p.conns[address]
	if conn == nil {
		patience := backoff.Config{BaseDelay: againAfter, Multiplier: 1.5, MaxDelay: backoffMost}
		var err error
		conn, err = grpc.Dial(address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithKeepaliveParams(
				keepalive.ClientParameters{Time: aliveAfter, Timeout: askTimeout}),
			grpc.WithConnectParams(
				grpc.ConnectParams{Backoff: patience, MinConnectTimeout: backoffMost}))
		if err != nil {
			return nil, err
		}
		p.conns[address] = conn
	}
	return pdpb.NewPDClient(conn), nil
}

// lead is a client of the leader, asked for where it is not known.
func (p *placement) lead(ctx context.Context) (pdpb.PDClient, string, error) {
	p.mu.Lock()
	leader, endpoints := p.leader, append([]string(nil), p.endpoints...)
	p.mu.Unlock()
	if leader == "" {
		var err error
		if leader, err = p.find(ctx, endpoints); err != nil {
			return nil, "", err
		}
	}
	client, err := p.client(leader)
	return client, leader, err
}

func (p *placement) find(ctx context.Context, endpoints []string) (string, error) {
	var problems []error
	for _, endpoint := range endpoints {
		client, err := p.client(endpoint)
		if err == nil {
			var found *pdpb.GetMembersResponse
			limited, stop := context.WithTimeout(ctx, backoffMost)
			found, err = client.GetMembers(limited, &pdpb.GetMembersRequest{})
			stop()
			if err == nil && len(found.GetLeader().GetClientUrls()) > 0 {
				p.know(found)
				return bare(found.GetLeader().GetClientUrls()[0]), nil
			}
		}
		if err == nil {
			err = errors.New("it knows no leader")
		}
		problems = append(problems, fmt.Errorf("%s: %w", endpoint, err))
	}
	return "", errors.Join(problems...)
}

func (p *placement) know(found *pdpb.GetMembersResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leader = bare(found.GetLeader().GetClientUrls()[0])
	p.cluster = found.GetHeader().GetClusterId()
	for _, member := range found.GetMembers() {
		for _, url := range member.GetClientUrls() {
			if address := bare(url); !contains(p.endpoints, address) {
				p.endpoints = append(p.endpoints, address)
			}
		}
	}
}

func contains(all []string, one string) bool {
	for _, each := range all {
		if each == one {
			return true
		}
	}
	return false
}

// lost forgets a leader that did not answer, or said that it is none.
func (p *placement) lost(leader string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == leader {
		p.leader = ""
	}
}

func (p *placement) header() *pdpb.RequestHeader {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.RequestHeader{ClusterId: p.cluster}
}

type answer interface{ GetHeader() *pdpb.ResponseHeader }

// refusal is PD's own no, which asking again does not change.
type refusal struct{ why *pdpb.Error }

func (r refusal) Error() string { return r.why.GetMessage() }

// call is one of PD's gRPC, such as `pdpb.PDClient.GetStore`.
type call[Q any, A answer] func(pdpb.PDClient, context.Context, Q, ...grpc.CallOption) (A, error)

// ask puts one question to the leader, once.
func ask[Q any, A answer](ctx context.Context, p *placement, put call[Q, A], wish Q) (A, error) {
	var none A
	client, leader, err := p.lead(ctx)
	if err != nil {
		return none, err
	}
	limited, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	found, err := put(client, limited, wish)
	if err != nil {
		p.lost(leader)
		return none, err
	}
	if wrong := found.GetHeader().GetError(); wrong != nil && wrong.GetType() != pdpb.ErrorType_OK {
		if wrong.GetType() == pdpb.ErrorType_UNKNOWN {
			p.lost(leader)
		}
		return found, refusal{wrong}
	}
	return found, nil
}

// insist asks until there is an answer, or a no.
func insist[Q any, A answer](ctx context.Context, p *placement, put call[Q, A], wish Q) (A, error) {
	for {
		found, err := ask(ctx, p, put, wish)
		var no refusal
		if err == nil || (errors.As(err, &no) && no.why.GetType() != pdpb.ErrorType_UNKNOWN) {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, ctx.Err()
		case <-time.After(againAfter):
		}
	}
}
