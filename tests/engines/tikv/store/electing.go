package main

import (
	"context"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
)

// vote is one peer's wish to lead a region.
type vote struct {
	Region    uint64
	Epoch     *metapb.RegionEpoch
	Term      uint64
	Candidate uint64
}

type votes struct{ All []vote }

// voteReply is for one region: a yes, or why not.
type voteReply struct {
	Region  uint64
	Granted bool
	Term    uint64
	Gone    *metapb.RegionEpoch // the candidate is no part of it any more
}

type voteReplies struct{ All []voteReply }

// campaign stands for regions that nobody leads. Nothing is decided before others have agreed, so
// that a store nobody hears disturbs nobody when it comes back.
func (s *store) campaign(ctx context.Context, wanting []*replica) {
	asks := s.standing(wanting)
	given := make(map[uint64]map[uint64]bool)
	var waiting sync.WaitGroup
	for to, asked := range asks {
		waiting.Add(1)
		go func(to uint64, asked *votes) {
			defer waiting.Done()
			var replies voteReplies
			if s.call(ctx, to, "/peer/vote", asked, &replies) != nil {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, each := range replies.All {
				s.counted(each, to, given)
			}
		}(to, asked)
	}
	waiting.Wait()
	s.mu.Lock()
	for _, r := range wanting {
		s.elected(r, given[r.Region.GetId()])
	}
	s.mu.Unlock()
	s.save()
}

func (s *store) standing(wanting []*replica) map[uint64]*votes {
	s.mu.Lock()
	defer s.mu.Unlock()
	asks := map[uint64]*votes{}
	for _, r := range wanting {
		mine := r.peerOn(s.kept.Store)
		if mine == nil {
			continue
		}
		r.stands = max(r.Term, r.seen) + 1
		s.log.write("INFO", "starting a new election", "term", r.Term, "raft_id", mine.GetId(),
			"region_id", r.Region.GetId())
		one := vote{r.Region.GetId(), r.Region.GetRegionEpoch(), r.stands, mine.GetId()}
		for _, peer := range r.Region.GetPeers() {
			to := peer.GetStoreId()
			if to == s.kept.Store || peer.GetRole() == metapb.PeerRole_Learner {
				continue
			}
			if asks[to] == nil {
				asks[to] = &votes{}
			}
			asks[to].All = append(asks[to].All, one)
		}
	}
	return asks
}

// counted takes one answer in. Holding the lock.
func (s *store) counted(each voteReply, from uint64, given map[uint64]map[uint64]bool) {
	r := s.kept.Regions[each.Region]
	if r == nil {
		return
	}
	r.seen = max(r.seen, each.Term)
	if each.Gone != nil {
		s.forget(each.Region, each.Gone)
	}
	if each.Granted {
		if given[each.Region] == nil {
			given[each.Region] = map[uint64]bool{}
		}
		given[each.Region][from] = true
	}
}

// elected leads the region if enough stores have agreed. Holding the lock.
func (s *store) elected(r *replica, given map[uint64]bool) {
	term, now := r.stands, time.Now()
	r.stands = 0
	fresh := newReplica(r.Region)
	r.patience = fresh.patience
	if s.kept.Regions[r.Region.GetId()] != r || term <= r.Term {
		return // somebody else leads it meanwhile
	}
	agrees := func(p *metapb.Peer) bool {
		return p.GetStoreId() == s.kept.Store || given[p.GetStoreId()]
	}
	if !r.majority(agrees) {
		r.heard = now.Add(-time.Duration(float64(s.election) * fresh.patience / 2))
		return
	}
	r.Term, r.Voted = term, r.peerOn(s.kept.Store).GetId()
	s.leads(r, now)
}

// hearVotes is the other side of campaign.
func (s *store) hearVotes(_ context.Context, asked *votes) (*voteReplies, error) {
	replies := &voteReplies{}
	s.mu.Lock()
	for _, each := range asked.All {
		replies.All = append(replies.All, s.judged(each))
	}
	s.mu.Unlock()
	s.save()
	return replies, nil
}

// judged answers one wish. Who hears a leader gives nobody a vote. Holding the lock.
func (s *store) judged(asked vote) voteReply {
	no := voteReply{Region: asked.Region}
	r := s.kept.Regions[asked.Region]
	if r == nil {
		if gone := s.kept.Gone[asked.Region]; gone != nil && !older(gone, asked.Epoch) {
			no.Gone = gone
		}
		return no
	}
	epoch := r.Region.GetRegionEpoch()
	no.Term = r.Term
	if r.peer(asked.Candidate) == nil && older(asked.Epoch, epoch) {
		no.Gone = epoch
		return no
	}
	hears := r.leader != 0 && time.Since(r.heard) < s.election
	taken := asked.Term == r.Term && r.Voted != asked.Candidate
	late := asked.Term < r.Term || older(asked.Epoch, epoch)
	if hears || late || taken || asked.Term == r.stands {
		return no
	}
	r.Term, r.Voted, r.leader, r.heard = asked.Term, asked.Candidate, 0, time.Now()
	return voteReply{Region: asked.Region, Granted: true, Term: asked.Term}
}

// handOver lets another peer lead, which says so itself from then on.
func (s *store) handOver(ctx context.Context, r *replica, to *metapb.Peer) error {
	s.mu.Lock()
	term := r.Term + 1
	said := state{r.Region, term, to.GetId()}
	s.mu.Unlock()
	if err := s.call(ctx, to.GetStoreId(), "/peer/lead", &said, &struct{}{}); err != nil {
		return err
	}
	s.mu.Lock()
	if term > r.Term {
		s.follows(r, term, to.GetId())
	}
	s.mu.Unlock()
	s.save()
	return nil
}

// hearLead is the other side of handOver.
func (s *store) hearLead(_ context.Context, said *state) (*struct{}, error) {
	s.mu.Lock()
	r := s.kept.Regions[said.Region.GetId()]
	if r == nil || said.Term <= r.Term || r.peerOn(s.kept.Store).GetId() != said.Leader ||
		older(said.Region.GetRegionEpoch(), r.Region.GetRegionEpoch()) {
		s.mu.Unlock()
		return nil, errNotAgreed
	}
	r.Region, r.Term, r.Voted = said.Region, said.Term, said.Leader
	s.leads(r, time.Now())
	s.mu.Unlock()
	s.save()
	return &struct{}{}, nil
}
