# Draws scale.tsv: keys a second by clients, one picture for each of the delays.
set terminal svg size 900,350 * ((words(delays) + 1) / 2) font 'sans,11' background '#ffffff'
set output out
set multiplot layout (words(delays) + 1) / 2,2 title 'keys a second by clients (bench/scale, canned replies)'
set datafile separator '\t'
set logscale xy
set xlabel 'clients'
set ylabel 'keys a second'
set key outside right center font ',9'
set grid
kinds = 'key once duplicate cached batch guard unique relay powertools'
array names[9] = ['key by COMMIT', 'idem_once', 'a duplicate', 'from the cache', '100 by a batch', '100 by a guard', \
    'a primary key', 'outbox, relay', 'Powertools']
do for [delay in delays] {
    set title sprintf('replies after %s ms', delay)
    plot for [i = 1:9] \
        sprintf("< awk '$1 == \"%s\" && $2 == %s' %s", word(kinds, i), delay, file) using 3:4 with linespoints title names[i]
}
unset multiplot
