<?php
/**
 * A webhook receiver: each Idempotency-Key is processed once, and every delivery gets the same
 * answer.
 *
 * Needs PDO's pgsql; ../schema.sql has the table.
 *
 *   Debian: apt-get install php-cli php-pgsql
 *   Run:    PGHOST=... PGDATABASE=... PGUSER=shop PHP_CLI_SERVER_WORKERS=8 php -S 127.0.0.1:8080 webhook.php
 */
declare(strict_types=1);

const ATTEMPTS = 6;

// Another attempt may succeed: deadlock, serialization failure, and what exactonce says of keys that
// are in progress or lost, and of DynamoDB when it does not answer.
const PASSING = ['40001', '40P01', 'ID001', 'ID002', 'ID006'];

// Kept from one request of this process to the next. libpq's variables have the address: PGHOST,
// PGDATABASE, PGUSER, ...
function connect(): PDO
{
    return new PDO('pgsql:', null, null, [PDO::ATTR_PERSISTENT => true, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
}

// The work. Whatever it does in this transaction is done once.
function take_payment(PDO $db, array $event): string
{
    $insert = $db->prepare('INSERT INTO payments (invoice, amount) VALUES (?, ?) RETURNING receipt');
    $insert->execute([$event['invoice'], $event['amount']]);
    return json_encode(['receipt' => (int) $insert->fetchColumn()], JSON_THROW_ON_ERROR);
}

// One attempt, which is one transaction: claim, work, completion.
function process(string $key, array $event): array
{
    $db = connect();
    $db->beginTransaction();
    try {
        $acquire = $db->prepare(
            "SELECT outcome, http_status, retry_after, result FROM idem_acquire(?, payload => ?, wait => '5s')");
        $acquire->execute([$key, json_encode($event, JSON_THROW_ON_ERROR)]);
        $claim = $acquire->fetch(PDO::FETCH_ASSOC);
        if ($claim['outcome'] === 'acquired') {
            $claim['result'] = take_payment($db, $event);
            $db->prepare('SELECT idem_complete(?, ?)')->execute([$key, $claim['result']]);
        }
        $db->commit();
        return $claim;                          // it has committed: only now may others be told
    } catch (Throwable $error) {
        try {
            $db->rollBack();
        } catch (PDOException) {
            // The connection is lost, and PHP opens another one.
        }
        throw $error;
    }
}

// PDO says HY000 when the connection was lost or could not be had.
function may_pass(PDOException $error): bool
{
    $state = sqlstate($error);
    return $state === 'HY000' || in_array($state, PASSING, true) || in_array(substr($state, 0, 2), ['08', '57'], true);
}

function sqlstate(PDOException $error): string
{
    return (string) ($error->errorInfo[0] ?? 'HY000');
}

// If the connection was lost in COMMIT, the next claim finds out whether it had committed.
function process_with_retries(string $key, array $event): array
{
    for ($attempt = 1; ; $attempt++) {
        try {
            return process($key, $event);
        } catch (PDOException $error) {
            if ($attempt === ATTEMPTS || !may_pass($error)) {
                throw $error;
            }
            error_log("attempt $attempt for $key: {$error->getMessage()}");
            usleep((int) (min(2_000_000, 100_000 * 2 ** $attempt) * (0.5 + lcg_value() / 2)));
        }
    }
}

function answer(int $status, string $body): void
{
    http_response_code($status);
    header('Content-Type: application/json');
    echo $body;
}

function webhook(): void
{
    $key = $_SERVER['HTTP_IDEMPOTENCY_KEY'] ?? '';
    $event = json_decode((string) file_get_contents('php://input'), true);
    if ($key === '' || !is_array($event) || !isset($event['invoice'], $event['amount'])) {
        answer(400, '{"error": "a header Idempotency-Key, and an invoice and an amount are needed"}');
        return;
    }
    try {
        // With more than one sender, the sender is a part of the key.
        $claim = process_with_retries("webhook/$key", $event);
    } catch (PDOException $error) {
        $state = sqlstate($error);
        if ($state === 'ID003') {
            answer(422, '{"error": "this key was used for another event"}');
        } elseif (in_array(substr($state, 0, 2), ['22', '23'], true)) {
            answer(422, '{"error": "this event cannot be processed"}');
        } elseif (may_pass($error)) {
            header('Retry-After: 5');
            answer(503, '{"error": "try again"}');
        } else {
            error_log("$key: {$error->getMessage()}");
            answer(500, '{"error": "for people to look at"}');
        }
        return;
    }
    if ($claim['outcome'] === 'completed') {
        header('Idempotency-Replayed: true');
    }
    if ($claim['retry_after'] !== null) {
        header("Retry-After: {$claim['retry_after']}");
    }
    answer((int) $claim['http_status'], $claim['result'] ?? json_encode(['error' => $claim['outcome']]));
}

webhook();
